// A target for tests that nothing can be preloaded into.
#include <unistd.h>

int main() { return write(STDOUT_FILENO, "static\n", 7) == 7 ? 3 : 1; }
