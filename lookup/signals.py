"""What happens in searches, for those who keep it: monitoring.receivers, and add-ons."""

from django.dispatch import Signal

#: A search has asked its sources, for a client or not. `slots`: name → lookup.search.SlotResult.
#: `token_id`: of the client's token, or None.
searched = Signal()
#: A request to the search was answered. `record`: the lookup.recording.SearchRecord;
#: `number_mask`: the number as logs show it, or an empty string.
answered = Signal()
#: An operator has paused a source, in the same transaction. `pause`: the lookup.models.SourcePause.
paused = Signal()
#: As `paused`, for one that is called again.
resumed = Signal()
