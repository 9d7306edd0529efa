"""Dead letters: which groups have some, why each is one, and what to do with them."""
