# SPDX-License-Identifier: Apache-2.0
"""Tables as DataFrames."""

import sys
import unittest

try:
    import pandas
except ImportError:
    print("skipped: there is no pandas (Debian package python3-pandas)")
    sys.exit(77)

import esscher


class Frames(unittest.TestCase):
    def test_a_table_is_a_frame(self):
        r = esscher.converge(n=[50, 100], replicates=4)
        frame = r.to_pandas()
        self.assertEqual(list(frame.columns), list(r.tables["rows"].dtype.names))
        self.assertEqual(frame["n"].tolist(), [50, 100])
        self.assertEqual(frame["n"].dtype, "int64")
        self.assertEqual(r.to_pandas("fits").shape, (1, len(r.tables["fits"].dtype.names)))
        self.assertIsInstance(frame, pandas.DataFrame)

    def test_a_frame_is_a_csv_file(self):
        columns = {
            "context": [1, 4, 16, 64, 256, 1024, 4096],
            "loss": [5.72, 3.46, 2.41, 1.88, 1.6, 1.474, 1.405],
        }
        r = esscher.context_fit(pandas.DataFrame(columns))
        self.assertEqual(r.findings, esscher.context_fit(columns).findings)


if __name__ == "__main__":
    unittest.main()
