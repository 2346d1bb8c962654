"""What work may take: time (`deadline`), memory and workers (`executors`)."""
