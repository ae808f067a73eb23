#include <manta/manta.h>

#include <iostream>

int add(int a, int b) { return a + b; }

int main(int argc, char** argv) {
  manta::init(argc, argv);
  std::cout << manta::get(manta::remote(add, 20, 22)) << "\n";
}
