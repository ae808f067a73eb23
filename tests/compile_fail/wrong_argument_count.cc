// expect: wrong number of arguments for this function
#include <manta/manta.h>

int add(int a, int b) { return a + b; }

void f() { manta::remote(add, 1); }
