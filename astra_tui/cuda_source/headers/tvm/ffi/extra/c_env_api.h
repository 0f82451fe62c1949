#pragma once
void* TVMFFIEnvGetStream(int, int);
