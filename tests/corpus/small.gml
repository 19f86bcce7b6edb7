Creator "x"
graph [
 directed 0 # c
 node [ id 7 label "seven" ]
 node [ id 3 graphics [ x 1 ] ]
 edge [ source 7 target 3 value 2.5 ]
]
