"""What is shown: facts of a session or of an answer as documents, and the words in them.

`numbers` writes every number, `tones` knows the tone of every outcome, `words` says what is known
of a session and `events` what happened in it. A `document` is made of these once and rendered as
lines, HTML or Markdown; `report` is the document of a whole session.
"""
