"""Models that keep their attention, their data and their training, in torch; knows nothing of export or serving."""
