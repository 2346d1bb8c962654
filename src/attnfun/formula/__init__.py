"""WHAT IS WRITTEN: formulas as programs of elementary functions, and the circuits they are lowered to."""
