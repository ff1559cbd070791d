// Writes the time at which main() started to a file per rank, in the folder
// given as argument.

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string>

int main(int, char** argv) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::ofstream out(std::string(argv[1]) + "/" + std::to_string(getpid()));
  out << now.tv_sec << " " << now.tv_nsec << "\n";
  return out ? 0 : 1;
}
