#pragma once

#include <rapidcheck.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

/// The bricks that the generators of both models are built from. In each the first value is the one
/// that shrinking ends at, and the spread does not depend on RapidCheck's size, which here means
/// the length of a sequence.
namespace oncebox::conformance {

/// A value whose type is forgotten. RapidCheck compiles anew for every type and every combination
/// of types; for the steps of the models that took half a minute. So it sees this one type only.
using AnyValue = std::shared_ptr<const void>;
using AnyGen = rc::Gen<AnyValue>;
using Assembly = std::function<AnyValue(const std::vector<AnyValue>&)>;

[[nodiscard]] AnyGen any_of(std::vector<AnyValue> values);
[[nodiscard]] AnyGen any_weighted(std::vector<std::pair<std::size_t, AnyGen>> choices);
[[nodiscard]] AnyGen one_to_three_of_any(const AnyGen& item, Assembly assemble);
[[nodiscard]] AnyGen sequences_of_any(const AnyGen& item, Assembly assemble);
/// Each part is drawn and shrunk independently of the others.
[[nodiscard]] AnyGen assembled(std::vector<AnyGen> parts, Assembly assemble);

/// A generator that remembers the type of what it makes.
template <class T>
struct Values {
  AnyGen any;
};

template <class T>
[[nodiscard]] AnyValue forget_type(T value) {
  return std::make_shared<const T>(std::move(value));
}

template <class T>
[[nodiscard]] const T& recall_type(const AnyValue& value) {
  return *static_cast<const T*>(value.get());
}

template <class T>
[[nodiscard]] AnyValue assemble_vector(const std::vector<AnyValue>& items) {
  std::vector<T> whole;
  whole.reserve(items.size());
  for (const AnyValue& item : items) whole.push_back(recall_type<T>(item));
  return forget_type(std::move(whole));
}

/// What RapidCheck's properties take.
template <class T>
[[nodiscard]] rc::Gen<T> typed(const Values<T>& values) {
  return rc::gen::map(values.any, [](const AnyValue& value) { return recall_type<T>(value); });
}

/// A number below `count`.
[[nodiscard]] Values<std::size_t> below(std::size_t count);

/// One of these; a value that stands here twice comes twice as often.
template <class T>
[[nodiscard]] Values<T> one_of(const std::vector<T>& values) {
  std::vector<AnyValue> any;
  any.reserve(values.size());
  for (const T& value : values) any.push_back(forget_type<T>(value));
  return {any_of(std::move(any))};
}

/// Always this.
template <class T>
[[nodiscard]] Values<T> just(T value) {
  return {any_of({forget_type(std::move(value))})};
}

/// One of these, as often as the number before it says.
template <class T>
[[nodiscard]] Values<T> weighted(const std::vector<std::pair<std::size_t, Values<T>>>& choices) {
  std::vector<std::pair<std::size_t, AnyGen>> any;
  any.reserve(choices.size());
  for (const auto& [weight, values] : choices) any.emplace_back(weight, values.any);
  return {any_weighted(std::move(any))};
}

/// From one to three of these.
template <class T>
[[nodiscard]] Values<std::vector<T>> one_to_three(const Values<T>& item) {
  return {one_to_three_of_any(item.any, assemble_vector<T>)};
}

/// Up to two steps for each unit of RapidCheck's size, so up to 200. Long ones find more than many:
/// a second failure of one message, or a second quarantine of one content, is rare in fifty steps.
template <class Step>
[[nodiscard]] Values<std::vector<Step>> sequences_of(const Values<Step>& step) {
  return {sequences_of_any(step.any, assemble_vector<Step>)};
}

/// One member of a `Whole`: the values it takes, and how it takes one.
template <class Whole>
struct MemberValues {
  AnyGen any;
  std::function<void(Whole&, const AnyValue&)> assign;
};

template <class Whole, class Member>
[[nodiscard]] MemberValues<Whole> set(Member Whole::* member, const Values<Member>& values) {
  return {.any = values.any, .assign = [member](Whole& whole, const AnyValue& value) {
            whole.*member = recall_type<Member>(value);
          }};
}

/// A `Whole` with these members, as an `As`, of which it is one alternative.
template <class Whole, class As = Whole>
[[nodiscard]] Values<As> build(const std::vector<MemberValues<Whole>>& members) {
  std::vector<AnyGen> parts;
  for (const MemberValues<Whole>& member : members) parts.push_back(member.any);
  return {assembled(std::move(parts), [members](const std::vector<AnyValue>& drawn) {
    Whole whole{};
    for (std::size_t i = 0; i < drawn.size(); ++i) members[i].assign(whole, drawn[i]);
    return forget_type(As{std::move(whole)});
  })};
}

}  // namespace oncebox::conformance
