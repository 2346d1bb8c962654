"""RUN: back ends that evaluate or export a network. Each imports its framework only when it is used."""
