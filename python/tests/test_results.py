# SPDX-License-Identifier: Apache-2.0
"""Results: tables, columns, views, run files, a notebook's view and the figure in it."""

import copy
import importlib.util
import math
import os
import pickle
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import numpy as np

import esscher
from esscher.figure import Axis, plot_of, svg
from esscher.results import ColumnInfo


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "x.run")
        cls.r = esscher.converge(
            dim=5, scales=[0.5, 1], n=[100, 400, 1600], replicates=8, out=cls.path
        )

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_tables_hold_what_json_holds(self):
        rows = self.r.json()["rows"]
        table = self.r.tables["rows"]
        self.assertEqual(len(rows), len(table))
        for key in table.dtype.names:
            self.assertEqual([row[key] for row in rows], table[key].tolist(), key)

    def test_a_plot_has_a_line_for_each_setting_with_its_errors(self):
        """Axes that only take notes: what matplotlib is asked for, whether or not it is installed."""
        drawn, notes = [], {}

        class Axes:
            def errorbar(self, x, y, yerr, label, **style):
                drawn.append((label, list(x), list(y), list(yerr)))

            def __getattr__(self, name):
                return lambda *words, **options: notes.update({name: words})

        axes = Axes()
        self.assertIs(self.r.plot(ax=axes), axes)
        rows = self.r.tables["rows"]
        self.assertEqual(len(drawn), 2)  # scales
        for (label, x, y, error), scale in zip(drawn, (0.5, 1.0)):
            own = rows[rows["scale"] == scale]
            self.assertEqual(label, f"scale {scale:g}")
            self.assertEqual(x, [100, 400, 1600])
            measured = notes["set_ylabel"][0]
            key = next(k for k, c in self.r.columns("rows").items() if measured.startswith(c.title))
            np.testing.assert_array_equal(y, own[key])
            np.testing.assert_array_equal(error, own[key + "_se"])
        self.assertEqual(notes["set_xscale"], ("log",))  # 100 to 1600

    def test_a_plot_is_of_the_first_table_that_can_be_drawn(self):
        """In the main table of rope no quantity is along another."""
        drawn = []

        class Axes:
            def errorbar(self, x, y, **options):
                drawn.append(len(x))

            def __getattr__(self, name):
                return lambda *words, **options: None

        r = esscher.rope()
        self.assertIsNone(plot_of(r.tables[r.main], list(r.columns().values())))
        r.plot(ax=Axes())
        self.assertTrue(drawn)
        with self.assertRaisesRegex(esscher.ArgumentError, f"nothing to draw in table {r.main!r}"):
            r.plot(r.main, ax=Axes())
        with self.assertRaisesRegex(KeyError, "there is no table 'nosuch'"):
            r.plot("nosuch", ax=Axes())

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "there is no matplotlib")
    def test_matplotlib_draws_it(self):
        import matplotlib

        matplotlib.use("Agg")
        axes = self.r.plot()
        self.assertEqual(len(axes.containers), 2)

    def test_dtypes(self):
        table = self.r.tables["rows"]
        self.assertEqual(table.dtype["n"], np.int64)
        self.assertEqual(table.dtype["map_error"], np.float64)
        self.assertEqual(table.dtype["flag"], object)
        self.assertIsInstance(table["flag"][0], str)

    def test_columns_say_what_they_are(self):
        columns = self.r.columns("rows")
        self.assertEqual(columns["map_error"].error, "map_error_se")
        self.assertTrue(columns["map_error_se"].is_error)
        self.assertEqual(columns["n"].unit, "tokens")
        self.assertTrue(columns["n"].tells_apart)
        self.assertEqual(self.r.columns("fits")["predicted.rate_horizon"].standing, "cited")
        with self.assertRaises(KeyError):
            self.r.columns("row")

    def test_values_findings_and_provenance(self):
        self.assertEqual(self.r.values["dim"], 5)
        self.assertEqual(self.r.values["law"], "gaussian")
        self.assertNotIn("rows", self.r.values)
        self.assertEqual(self.r.provenance["library"], esscher.version)
        self.assertEqual(len(self.r.findings), 2)
        self.assertFalse(self.r.refuted)
        self.assertEqual(self.r.main, "rows")

    def test_the_main_table_is_that_of_csv(self):
        x = np.random.default_rng(0).normal(size=(2, 20, 4))
        path = os.path.join(self.folder.name, "measure.run")
        measured = esscher.measure(q=x, k=x, v=x, out=path)
        for r in (self.r, measured, esscher.open(path)):
            self.assertEqual(r.main, "rows")
        fits_first = esscher.ball(n=[50, 100, 200], replicates=4, dim=2)
        for r in (self.r, measured, fits_first):
            self.assertEqual(r.csv(), r.csv(r.main))

    def test_views(self):
        self.assertIn(self.r.findings[0].split(" (")[0], str(self.r))
        self.assertIn("| n ", self.r.markdown().replace("|  ", "| "))
        self.assertTrue(self.r.csv().startswith("scale,n,mean_error,"))
        self.assertTrue(self.r.csv("fits").startswith("scale,horizon,"))
        self.assertIn(r"\begin{tabular}", self.r.latex())
        with self.assertRaises(esscher.ArgumentError):
            self.r.csv("nothing")

    def test_an_opened_run_is_the_same_result(self):
        opened = esscher.open(self.path)
        self.assertEqual(opened.command, "converge")
        self.assertEqual(list(opened.tables), list(self.r.tables))
        for name, table in self.r.tables.items():
            self.assertEqual(opened.tables[name].dtype, table.dtype)
            np.testing.assert_array_equal(opened.tables[name], table)
            self.assertEqual(opened.columns(name), self.r.columns(name))
        self.assertEqual(opened.findings, self.r.findings)
        self.assertEqual(opened.values, self.r.values)
        self.assertEqual(str(opened), str(self.r))
        self.assertEqual(opened.json()["rows"], self.r.json()["rows"])
        self.assertEqual(opened.provenance["sessions"][0]["version"], esscher.version)
        self.assertEqual(opened.provenance["parameters"]["dim"], "5")

    def test_copies(self):
        opened = esscher.open(self.path)
        for r in (self.r, opened):
            text = str(r)
            other = copy.deepcopy(r)
            other.tables["rows"]["n"][0] = 7
            self.assertEqual(str(other), text)
            self.assertEqual(r.tables["rows"]["n"][0], 100)
        again = pickle.loads(pickle.dumps(opened))
        self.assertEqual(str(again), str(opened))
        self.assertEqual(again.json(), opened.json())
        with self.assertRaisesRegex(TypeError, "esscher.open"):
            pickle.dumps(self.r)

    def test_what_cannot_be_opened(self):
        with self.assertRaises(OSError):
            esscher.open("/nowhere.run")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"something else")
            file.flush()
            with self.assertRaises(esscher.FormatError) as raised:
                esscher.open(file.name)
        self.assertEqual(raised.exception.file, file.name)

    def test_report(self):
        out = os.path.join(self.folder.name, "x.html")
        self.assertEqual(esscher.report(self.r, out=out, figures=False), out)
        with open(out, encoding="utf-8") as page:
            self.assertIn("converge", page.read())
        with self.assertRaises(esscher.ExistsError) as raised:
            esscher.report(self.path, out=out, figures=False)
        self.assertIn("force=True", raised.exception.hint)
        for page in (self.path, self.path + ".html"):
            if page != self.path:
                os.symlink(self.path, page)
            with self.assertRaises(esscher.ArgumentError) as raised:
                esscher.report(self.r, out=page, figures=False, force=True)
            self.assertEqual(raised.exception.rule, "report.out")
        self.assertEqual(esscher.open(self.path).findings, self.r.findings)
        with self.assertRaises(ValueError):
            esscher.report(esscher.converge(n=[50], replicates=4), out=out, figures=False)

    def test_a_notebooks_view(self):
        page = self.r._repr_html_()
        tree = ElementTree.fromstring(page.replace("<br>", ""))
        self.assertEqual(len(tree.findall(".//li")), 2)
        self.assertEqual(len(tree.findall(".//tbody/tr")), 6)
        self.assertEqual(len(tree.findall(".//circle")), 6)  # every row is drawn
        self.assertIn("±", page)


class Figures(unittest.TestCase):
    def column(self, key, **more):
        return ColumnInfo(key, key, "", "real", "", **{"error": None, "standing": "", **more})

    def test_points_lie_where_the_axes_say(self):
        table = np.array(
            [(10, 1.0, 0.5), (100, 0.1, np.nan), (1000, np.nan, 0.1)],
            dtype=[("n", "i8"), ("e", "f8"), ("e_se", "f8")],
        )
        about = [self.column("n", tells_apart=True), self.column("e", error="e_se")]
        plot = plot_of(table, about)
        self.assertIn("bars: one standard error; 1 rows have no number", plot.caption)
        tree = ElementTree.fromstring(svg(plot))
        places = [float(c.get("cx")) for c in tree.findall(".//circle")]
        axis = Axis(np.array([10.0, 100, 1000]), 70, 430)
        self.assertTrue(axis.log)
        np.testing.assert_allclose(places, [axis.at(10), axis.at(100)], atol=0.06)
        self.assertAlmostEqual(axis.at(100) - axis.at(10), axis.at(1000) - axis.at(100))

    def test_nothing_to_draw(self):
        table = np.array([(1.0,)], dtype=[("e", "f8")])
        self.assertIsNone(plot_of(table, [self.column("e")]))
        self.assertIsNone(plot_of(table[:0], [self.column("e", tells_apart=True)]))

    def test_more_lines_than_colours_are_said(self):
        rows = [(g, n, 1.0 + n) for g in range(30) for n in (5, 6, 7)]
        table = np.array(rows, dtype=[("g", "U4"), ("n", "i8"), ("e", "f8")])
        keys = [self.column("g", tells_apart=True), self.column("n", tells_apart=True)]
        plot = plot_of(table, [*keys, self.column("e")])
        self.assertIn("the first 24 of 30 lines", plot.caption)
        tree = ElementTree.fromstring(svg(plot))
        self.assertEqual(len(tree.findall(".//circle")), 24 * 3)

    def test_a_head_is_no_quantity(self):
        rows = [(h, p, 1.0 + h) for h in range(6) for p in ("full", "stream", "top")]
        table = np.array(rows, dtype=[("head", "i8"), ("policy", "U9"), ("e", "f8")])
        keys = [self.column("head", tells_apart=True), self.column("policy", tells_apart=True)]
        plot = plot_of(table, [*keys, self.column("e")])
        self.assertEqual(plot.x.key, "head")
        self.assertFalse(plot.joined)
        tree = ElementTree.fromstring(svg(plot))
        ticks = [t.text for t in tree.findall(".//text") if t.get("text-anchor") == "middle"]
        self.assertEqual(ticks[:6], ["0", "1", "2", "3", "4", "5"])

    def test_every_policy_is_drawn_before_every_head(self):
        rows = [
            (0, h, p, n, 1.0 + n)
            for h in range(6) for p in ("full", "stream", "top") for n in (10, 20)
        ]  # fmt: skip
        dtype = [("layer", "i8"), ("head", "i8"), ("policy", "U9"), ("n", "i8"), ("e", "f8")]
        keys = [self.column(key, tells_apart=True) for key, _ in dtype[:-1]]
        plot = plot_of(np.array(rows, dtype=dtype), [*keys, self.column("e")])
        self.assertEqual(plot.x.key, "n")
        names = ["policy full", "policy stream", "policy top"]
        self.assertEqual([s.name for s in plot.series], names)
        self.assertIn("head 0 of 6 alone", plot.caption)

    def test_the_legend_fits(self):
        names = ["a policy with a very long name indeed", "b"]
        rows = [(g, n, 1.0 + n) for g in names for n in (10, 20)]
        table = np.array(rows, dtype=[("g", "U40"), ("n", "i8"), ("e", "f8")])
        keys = [self.column("g", tells_apart=True), self.column("n", tells_apart=True)]
        tree = ElementTree.fromstring(svg(plot_of(table, [*keys, self.column("e")])))
        label = next(t for t in tree.findall(".//text") if t.text.endswith("indeed"))
        width = float(tree.get("width")) - float(label.get("x"))
        self.assertGreater(width, 6 * len(label.text))

    def test_axes_of_any_numbers(self):
        extremes = ([5.0], [0.0], [-1.0, 1.0], [1e-300, 1e300], [-1e308, 1e308], [5e-324, 0.0])
        spans = ([0.0, 0.01 * k] for k in range(1, 1001))
        for values in (*extremes, *spans, [np.nan, np.nan]):
            axis = Axis(np.array(values), 0, 100)
            self.assertTrue(all(math.isfinite(axis.at(v)) for v in values if v == v), values)
            self.assertTrue(all(math.isfinite(t) for t in axis.ticks()), values)
            self.assertLessEqual(len(axis.ticks()), 12, values)

    def test_rows_without_a_place_are_not_drawn(self):
        table = np.array([(np.nan, 1.0), (2.0, 1.0), (3.0, 2.0)], dtype=[("n", "f8"), ("e", "f8")])
        plot = plot_of(table, [self.column("n", tells_apart=True), self.column("e")])
        self.assertIn("1 rows have no number", plot.caption)
        self.assertEqual(len(ElementTree.fromstring(svg(plot)).findall(".//circle")), 2)

    def test_texts_are_escaped(self):
        rows = [("<script>", n, 1.0 + n) for n in range(3)] + [("b", 1, 2.0)]
        table = np.array(rows, dtype=[("g", "U9"), ("n", "i8"), ("e", "f8")])
        keys = [self.column("g", tells_apart=True), self.column("n", tells_apart=True)]
        self.assertNotIn("<script", svg(plot_of(table, [*keys, self.column("e")])))


if __name__ == "__main__":
    unittest.main()
