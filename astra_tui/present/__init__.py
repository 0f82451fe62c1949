"""What is shown, as documents made of the facts of a session or of an answer.

`numbers` writes every number, `tones` knows the tone of every outcome, `words` what is known of a
session, `events` what happened in it. A `document` is rendered as lines (`layout`) or as `files`.
"""
