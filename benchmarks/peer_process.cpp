#include "peer_process.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace oncebox::bench {

std::map<std::string, double> run_peer(const PeerRun& run) {
  const std::string command = fmt::format("cd '{}' && ./node '{}' '{}' {} {}", run.folder,
                                          run.script, run.url, run.count, run.batch);
  const auto close = [](FILE* pipe) { pclose(pipe); };
  std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  if (!pipe) throw std::runtime_error("cannot run " + run.script);
  std::map<std::string, double> rates;
  std::array<char, 64> figure{};
  double rate = 0;
  while (std::fscanf(pipe.get(), "%63s %lf", figure.data(), &rate) == 2) {
    rates.emplace(figure.data(), rate);
  }
  if (pclose(pipe.release()) != 0) throw std::runtime_error(run.script + " failed");
  return rates;
}

}  // namespace oncebox::bench
