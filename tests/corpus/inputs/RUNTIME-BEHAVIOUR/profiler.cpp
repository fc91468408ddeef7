// corpus: silent
// at: 6
// documented: https://docs.nvidia.com/cupti/release-notes/release-notes.html
#include <cupti.h>

void begin(CUpti_EventGroup group) { cuptiEventGroupEnable(group); }
