// Runs the simulation for as many seeds as wanted: simulate [SEEDS] [FIRST_SEED]
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "scenario.hpp"

int main(int count, char** arguments) try {
  const std::uint64_t seeds = count > 1 ? std::stoull(arguments[1]) : 1'000;
  const std::uint64_t first = count > 2 ? std::stoull(arguments[2]) : 1;
  std::size_t steps = 0;
  std::size_t messages = 0;
  for (std::uint64_t seed = first; seed - first < seeds; ++seed) {
    const auto outcome = oncebox::simulation::run(seed);
    if (!outcome.is_good()) {
      fmt::print("{}seed {}: {}\nagain: ./dev simulate 1 {}\n", outcome.story, seed,
                 outcome.violation, seed);
      return 1;
    }
    steps += outcome.steps;
    messages += outcome.messages;
  }
  fmt::print("{} seeds from {} on, {} steps, {} messages: every rule held\n", seeds, first, steps,
             messages);
  return 0;
} catch (const std::exception& failure) {
  fmt::print(stderr, "{}\nusage: simulate [SEEDS] [FIRST_SEED]\n", failure.what());
  return 2;
}
