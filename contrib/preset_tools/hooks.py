from lookup.vendors import SAMPLES

SAMPLES.add("contrib.preset_tools.samples.problems")
