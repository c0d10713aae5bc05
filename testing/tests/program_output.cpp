#include "program_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "oncebox/testing/child_process.hpp"

namespace oncebox::testing {

std::string output_of(const std::vector<std::string>& command) {
  std::string output = (std::filesystem::temp_directory_path() / "oncebox-output-XXXXXX").string();
  close(mkostemp(output.data(), O_CLOEXEC));
  ChildProcess process(command, {.output_file = output});
  process.wait_for(std::chrono::seconds{60});
  std::ifstream file(output);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(output);
  return text;
}

std::string psql(const std::string& url, const std::string& sql) {
  return output_of({"psql", "-X", "-w", "-At", "-c", sql, url});
}

}  // namespace oncebox::testing
