"""Progress bars on stderr, shown on a terminal only."""

from functools import partial

from tqdm import tqdm

#: tqdm's; it is removed from the terminal when it is closed.
progress_bar = partial(tqdm, disable=None, leave=False, dynamic_ncols=True)
