#include "served_process.hpp"

#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace oncebox::bench {

namespace {

using namespace std::chrono_literals;

std::uint16_t port_in(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  // A line without an end may not be whole yet.
  if (!std::getline(in, line) || in.eof()) return 0;
  return static_cast<std::uint16_t>(std::stoul(line));
}

}  // namespace

ServedProcess::ServedProcess(std::vector<std::string> command, const std::string& port_file,
                             PortFrom from, const std::string& folder)
    : process_(std::make_unique<testing::ChildProcess>(
          command, testing::ChildProcessOptions{
                       .output_file = from == PortFrom::output ? port_file : port_file + ".log",
                       .folder = folder})) {
  for (const auto deadline = std::chrono::steady_clock::now() + 30s; port_ == 0;) {
    port_ = port_in(port_file);
    if (port_ != 0) break;
    if (process_->wait_for(10ms) || std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(command.front() + " does not serve");
    }
  }
}

double ServedProcess::resident_mib() const {
  std::ifstream in("/proc/" + std::to_string(process_->pid()) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmRSS:")) {
      return std::stod(line.substr(6)) / 1024;
    }
  }
  throw std::runtime_error("the process has ended");
}

}  // namespace oncebox::bench
