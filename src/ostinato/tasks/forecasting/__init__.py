"""Series of numbers to what comes next: one recurrent network, a distribution of the next value after each."""
