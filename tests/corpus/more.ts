# x
@problemName q
@univariate true
@classLabel true a b
@data
1,2,3:4,5,6:b
7,?:8,9:a

