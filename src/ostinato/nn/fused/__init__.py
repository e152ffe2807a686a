"""Training steps of recurrent networks, made of our own kernels: the same numbers as `Network.loss`, sooner.

`engine` decides and leads, `cells` says what each cell is made of, `layers` reads and learns through time, `head` is
the softmax; views of the network's own parameters and gradients (`weights`) go in, everything in between is written
into memory that is kept. `scanning` lets networks that torch trains read whole sequences by the same kernels.
"""
