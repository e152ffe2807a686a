"""The contract: state, model, score, vocabulary, and the errors everything else raises."""
