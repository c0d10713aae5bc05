#include "figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace oncebox::bench {

void Report::add(const std::string& bench, double rate) {
  figures_.push_back({.bench = bench, .value = rate});
  fmt::print("{:<52} {:>11.0f} /s\n", bench, rate);
  std::fflush(stdout);
}

void Report::add(const std::string& bench, double rate, const std::string& baseline) {
  const double ratio = rate / rate_of(baseline);
  figures_.push_back({.bench = bench, .value = rate, .baseline = baseline, .ratio = ratio});
  fmt::print("{:<52} {:>11.0f} /s   {:.2f} of {}\n", bench, rate, ratio, baseline);
  std::fflush(stdout);
}

void Report::add_time(const std::string& bench, double microseconds) {
  figures_.push_back({.bench = bench, .value = microseconds, .unit = "us"});
  fmt::print("{:<52} {:>11.0f} us\n", bench, microseconds);
  std::fflush(stdout);
}

void Report::add_memory(const std::string& bench, double mebibytes) {
  figures_.push_back({.bench = bench, .value = mebibytes, .unit = "MiB"});
  fmt::print("{:<52} {:>10.1f} MiB\n", bench, mebibytes);
  std::fflush(stdout);
}

void Report::add_count(const std::string& bench, double count, const std::string& unit) {
  figures_.push_back({.bench = bench, .value = count, .unit = unit});
  fmt::print("{:<52} {:>11.0f} {}\n", bench, count, unit);
  std::fflush(stdout);
}

double Report::rate_of(const std::string& bench) const {
  const auto named = [&](const Figure& figure) { return figure.bench == bench; };
  const auto found = std::find_if(figures_.begin(), figures_.end(), named);
  if (found == figures_.end()) throw std::logic_error("no figure is named " + bench);
  return found->value;
}

void Report::print_json() const {
  for (const Figure& figure : figures_) {
    const std::string ratio =
        figure.baseline.empty() ? "null" : fmt::format("{:.3f}", figure.ratio);
    const std::string baseline =
        figure.baseline.empty() ? "null" : fmt::format("\"{}\"", figure.baseline);
    fmt::print(
        "{{\"bench\": \"{}\", \"value\": {:.1f}, \"unit\": \"{}\", \"baseline\": {}, "
        "\"ratio\": {}}}\n",
        figure.bench, figure.value, figure.unit, baseline, ratio);
  }
}

double median(std::vector<double> rates) {
  if (rates.empty()) throw std::logic_error("no rates to take the median of");
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

}  // namespace oncebox::bench
