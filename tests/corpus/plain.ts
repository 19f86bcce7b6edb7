@classLabel false
@data
1.5,-2
3 , 4
