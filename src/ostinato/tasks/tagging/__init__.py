"""Words to labels: a label for each word of a sentence, or for each character, which cuts text into words."""
