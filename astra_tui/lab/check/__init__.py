"""Does a kernel compute what its task says? Cases, oracle, judgement, and the loop over them."""
