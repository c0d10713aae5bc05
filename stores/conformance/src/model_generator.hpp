#pragma once

#include <rapidcheck.h>

#include <cstddef>
#include <utility>
#include <vector>

/// The bricks that the generators of both models are built from. In each the first value is the one
/// that shrinking ends at, and the spread does not depend on RapidCheck's size, which here means
/// the length of a sequence.
namespace oncebox::conformance {

/// A number below `count`.
inline rc::Gen<std::size_t> below(std::size_t count) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, count));
}

/// One of these; a value that stands here twice comes twice as often.
template <class T>
rc::Gen<T> one_of(std::vector<T> values) {
  const std::size_t count = values.size();
  return rc::gen::map(below(count),
                      [values = std::move(values)](std::size_t place) { return values[place]; });
}

/// From one to three of these.
template <class T>
rc::Gen<std::vector<T>> one_to_three(rc::Gen<T> item) {
  constexpr int kMost = 3;
  return rc::gen::resize(kMost, rc::gen::nonEmpty(rc::gen::container<std::vector<T>>(item)));
}

/// Up to two steps for each unit of RapidCheck's size, so up to 200. Long ones find more than many:
/// a second failure of one message, or a second quarantine of one content, is rare in fifty steps.
template <class Step>
rc::Gen<std::vector<Step>> sequences_of(rc::Gen<Step> step) {
  constexpr double kStepsPerSize = 2.0;
  return rc::gen::scale(kStepsPerSize, rc::gen::container<std::vector<Step>>(std::move(step)));
}

}  // namespace oncebox::conformance
