#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace oncebox::bench {

/// One measured figure: a rate, or what its unit says. `baseline` names the figure that `ratio`
/// compares with; a figure without one leaves both empty.
struct Figure {
  std::string bench;
  double value = 0;
  std::string unit = "operations/s";
  std::string baseline = {};
  double ratio = 0;
};

/// The figures of one run. Prints a readable line as each comes in, and at the end one JSON line
/// each.
class Report {
 public:
  void add(const std::string& bench, double rate);
  /// Also tells the ratio to an earlier figure.
  void add(const std::string& bench, double rate, const std::string& baseline);
  void add_time(const std::string& bench, double microseconds);
  void add_memory(const std::string& bench, double mebibytes);
  /// Anything else that is counted, in its own unit.
  void add_count(const std::string& bench, double count, const std::string& unit);
  void print_json() const;

  [[nodiscard]] double rate_of(const std::string& bench) const;

 private:
  std::vector<Figure> figures_;
};

/// How many operations a second `work` does, where it answers how many it did.
template <class Work>
double measure(Work work) {
  const auto started = std::chrono::steady_clock::now();
  const std::size_t operations = work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  return static_cast<double>(operations) / took.count();
}

/// The middle one of several rates; a busy machine spoils single runs.
[[nodiscard]] double median(std::vector<double> rates);

}  // namespace oncebox::bench
