"""What compute-sanitizer wrote, mapped to the lines of a candidate."""
