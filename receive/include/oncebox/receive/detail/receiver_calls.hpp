#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>
#include <variant>

#include "oncebox/envelope.hpp"
#include "oncebox/receive/receive_context.hpp"
#include "oncebox/receive/received.hpp"

/// The forms in which a receiver takes handlers and key selectors, brought into one.
namespace oncebox::detail {

/// Whether calling `Callable` gives a result, or nothing where the result is nothing.
template <class Result, class Callable, class... Arguments>
concept CallGives =
    std::is_invocable_r_v<Result, Callable&, Arguments...> ||
    (std::same_as<Result, std::monostate> && std::invocable<Callable&, Arguments...> &&
     std::is_void_v<std::invoke_result_t<Callable&, Arguments...>>);

template <class Callable, class Payload, class Result>
concept HandlesEnvelope = CallGives<Result, Callable, const Envelope<Payload>&, ReceiveContext&>;
template <class Callable, class Payload, class Result>
concept HandlesPayload = CallGives<Result, Callable, const Payload&, ReceiveContext&>;
template <class Callable, class Payload, class Result>
concept HandlesPayloadAlone = CallGives<Result, Callable, const Payload&>;

/// `(const Envelope<Payload>&, ReceiveContext&)`, `(const Payload&, ReceiveContext&)` or
/// `(const Payload&)`, to `Result`; to void where the result is `std::monostate`.
template <class Callable, class Payload, class Result>
concept ReceiverHandler =
    std::copy_constructible<Callable> &&
    (HandlesEnvelope<Callable, Payload, Result> || HandlesPayload<Callable, Payload, Result> ||
     HandlesPayloadAlone<Callable, Payload, Result>);

template <class Payload, class Result>
using HandlerCall = std::function<Result(const Envelope<Payload>&, ReceiveContext&)>;

template <class Result, class Callable, class... Arguments>
Result call_for_result(Callable& callable, Arguments&&... arguments) {
  if constexpr (std::is_void_v<std::invoke_result_t<Callable&, Arguments...>>) {
    std::invoke(callable, std::forward<Arguments>(arguments)...);
    return Result{};
  } else {
    return std::invoke(callable, std::forward<Arguments>(arguments)...);
  }
}

template <class Payload, class Result, ReceiverHandler<Payload, Result> Callable>
HandlerCall<Payload, Result> handler_call(Callable callable) {
  return [callable = std::move(callable)](const Envelope<Payload>& message,
                                          ReceiveContext& context) mutable -> Result {
    if constexpr (HandlesEnvelope<Callable, Payload, Result>) {
      return call_for_result<Result>(callable, message, context);
    } else if constexpr (HandlesPayload<Callable, Payload, Result>) {
      return call_for_result<Result>(callable, message.payload, context);
    } else {
      return call_for_result<Result>(callable, message.payload);
    }
  };
}

template <class Selector, class Payload>
concept SelectsFromEnvelope =
    std::is_invocable_r_v<SelectedKey, const Selector&, const Envelope<Payload>&>;
template <class Selector, class Payload>
concept SelectsFromPayload = std::is_invocable_r_v<SelectedKey, const Selector&, const Payload&>;

/// `(const Envelope<Payload>&)` or `(const Payload&)`, also a pointer to a member of the payload,
/// to a view or reference into the message, a string, or an optional of either.
template <class Selector, class Payload>
concept KeySelector =
    std::copy_constructible<Selector> &&
    (SelectsFromEnvelope<Selector, Payload> || SelectsFromPayload<Selector, Payload>);

template <class Payload>
using SelectorCall = std::function<SelectedKey(const Envelope<Payload>&)>;

template <class Payload, KeySelector<Payload> Selector>
SelectorCall<Payload> selector_call(Selector selector) {
  return [selector = std::move(selector)](const Envelope<Payload>& message) -> SelectedKey {
    if constexpr (SelectsFromEnvelope<Selector, Payload>)
      return std::invoke(selector, message);
    else
      return std::invoke(selector, message.payload);
  };
}

}  // namespace oncebox::detail
