"""What an H100 computed for every opcode, recorded once, to compare the emulator with."""
