#include "model_generator.hpp"

namespace oncebox::conformance {

namespace {

using Drawn = std::vector<rc::Shrinkable<AnyValue>>;

rc::Gen<std::size_t> numbers_below(std::size_t count) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, count));
}

std::vector<AnyValue> values_of(const Drawn& drawn) {
  std::vector<AnyValue> values;
  values.reserve(drawn.size());
  for (const rc::Shrinkable<AnyValue>& one : drawn) values.push_back(one.value());
  return values;
}

struct EachAlone {
  rc::Seq<Drawn> operator()(Drawn drawn) const {
    return rc::shrink::eachElement(
        std::move(drawn), [](const rc::Shrinkable<AnyValue>& one) { return one.shrinks(); });
  }
};

rc::Gen<std::vector<AnyValue>> one_of_each(std::vector<AnyGen> parts) {
  return [parts = std::move(parts)](rc::Random random, int size) {
    Drawn drawn;
    drawn.reserve(parts.size());
    for (const AnyGen& part : parts) drawn.push_back(part(random.split(), size));
    return rc::shrinkable::map(rc::shrinkable::shrinkRecur(std::move(drawn), EachAlone{}),
                               values_of);
  };
}

}  // namespace

AnyGen any_of(std::vector<AnyValue> values) {
  const std::size_t count = values.size();
  return rc::gen::map(numbers_below(count),
                      [values = std::move(values)](std::size_t place) { return values[place]; });
}

AnyGen any_weighted(std::vector<std::pair<std::size_t, AnyGen>> choices) {
  std::size_t total = 0;
  for (const auto& [weight, values] : choices) total += weight;
  return [choices = std::move(choices), total](rc::Random random, int size) {
    std::size_t left = random.split().next() % total;
    std::size_t place = 0;
    while (left >= choices[place].first) left -= choices[place++].first;
    return choices[place].second(random, size);
  };
}

AnyGen one_to_three_of_any(const AnyGen& item, Assembly assemble) {
  constexpr int kMost = 3;
  return rc::gen::map(
      rc::gen::resize(kMost, rc::gen::nonEmpty(rc::gen::container<std::vector<AnyValue>>(item))),
      std::move(assemble));
}

AnyGen sequences_of_any(const AnyGen& item, Assembly assemble) {
  constexpr double kStepsPerSize = 2.0;
  return rc::gen::map(
      rc::gen::scale(kStepsPerSize, rc::gen::container<std::vector<AnyValue>>(item)),
      std::move(assemble));
}

AnyGen assembled(std::vector<AnyGen> parts, Assembly assemble) {
  return rc::gen::map(one_of_each(std::move(parts)), std::move(assemble));
}

Values<std::size_t> below(std::size_t count) {
  return {
      rc::gen::map(numbers_below(count), [](std::size_t number) { return forget_type(number); })};
}

}  // namespace oncebox::conformance
