"""LOOK: the numbers behind pictures (`views`), pictures (`plots`), pages (`report`, `lab`)."""
