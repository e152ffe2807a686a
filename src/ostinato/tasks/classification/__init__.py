"""Sentences to labels: one recurrent network, a label for each text."""
