"""Published data sets as they lie on disk: pure functions of files, for whoever trains and whoever measures."""
