"""The steps of ``maintain``: what is kept, what has expired, and how each engine tidies up."""
