#include <astra_tui_torch.h>
