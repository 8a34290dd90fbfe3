esscher info
esscher info --json | head -5
esscher info --csv | head -1
