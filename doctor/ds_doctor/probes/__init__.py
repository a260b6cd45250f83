"""The sources: each module holds one fact, its pure parser and its probe; none of them judges."""
