#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "model_vocabulary.hpp"
#include "oncebox/clock.hpp"
#include "oncebox/conformance/print.hpp"

/// How the values of random operations read in the report of a failure.
namespace oncebox::conformance {

/// "250ms" or "3s".
inline std::string shown_duration(Duration duration) {
  const auto ms = duration.count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

/// An error of the vocabulary, in quotes; the long one only by name.
inline std::string shown_error(std::size_t place) {
  if (place + 1 == vocabulary::kErrors) return "(a text that is too long)";
  return testing::PrintToString(vocabulary::error(place));
}

/// The items, each by `show`, between semicolons.
template <class Item, class Show>
std::string joined(const std::vector<Item>& items, Show show) {
  std::string text;
  for (const Item& item : items) text += (text.empty() ? "" : "; ") + show(item);
  return text;
}

/// Each step on a numbered line of its own.
template <class Step>
void print_steps(std::ostream& out, const std::vector<Step>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) out << "\n  " << i + 1 << ". " << steps[i];
}

}  // namespace oncebox::conformance
