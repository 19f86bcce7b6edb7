Creator "x" Version 1
# comment
graph [
 directed 1 name "n"
 node [ id 7 label "seven" graphics [ x 1 y [ z 2 ] ] ]
 node [ id 3 ]
 edge [ source 7 target 3 weight 2.5 ]
 edge [ source 3 target 3 ]
]
