"""Count-based models: counts of all orders, smoothing, the back-off table, and the model that walks it."""
