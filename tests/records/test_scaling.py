"""Several real workers into one folder, on a small network; what they wrote is merged by reading it."""

from joblib import Parallel, delayed

from vgg_kernels.records.reading import read_runs
from vgg_kernels.records.scaling import measure_here

SMALL = {"name": "vgg11", "image": 32, "classes": 10}


def test_workers_side_by_side_write_runs_that_merge_by_being_read(tmp_path):
    jobs = [delayed(measure_here)(tmp_path, 100.0, ("time", "eager"), (batch,), SMALL) for batch in (1, 2, 3)]
    found = Parallel(n_jobs=3)(jobs)
    assert len({worker["run"] for worker in found}) == 3
    assert all(worker["complete"] for worker in found)
    runs = read_runs(tmp_path)
    assert runs.problems == []
    assert set(runs.provenance) == {worker["run"] for worker in found}
    assert len(runs.samples) == sum(worker["samples"] for worker in found)
    by_batch = runs.samples.groupby("batch")["run"].nunique()
    assert by_batch.to_dict() == {1: 1, 2: 1, 3: 1}


def test_runs_copied_together_merge_and_a_broken_one_costs_only_itself(tmp_path):
    first, second = (measure_here(tmp_path / node, 100.0, ("time", "eager"), (1,), SMALL) for node in ("a", "b"))
    samples = next((tmp_path / "b").rglob("samples.csv"))
    samples.write_text(samples.read_text().replace("eager", "eagle", 1))
    runs = read_runs(tmp_path)
    assert len(runs.samples) == first["samples"]
    assert any("samples.csv" in problem and "changed" in problem for problem in runs.problems)
    assert second["samples"] > 0
