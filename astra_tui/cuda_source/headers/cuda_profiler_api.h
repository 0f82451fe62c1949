// Only hosts call what the toolkit's header of this name declares.
#pragma once
