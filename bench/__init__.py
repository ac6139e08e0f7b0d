"""How fast mpibed itself is, as ratios against named peers measured in the same run. `make bench` runs everything."""
