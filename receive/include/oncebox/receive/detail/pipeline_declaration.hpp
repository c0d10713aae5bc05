#pragma once

#include <concepts>
#include <type_traits>
#include <utility>
#include <variant>

#include "oncebox/envelope.hpp"
#include "oncebox/handler.hpp"
#include "oncebox/names.hpp"
#include "oncebox/payload_codec.hpp"
#include "oncebox/receive/detail/receiver_calls.hpp"
#include "oncebox/receive/receive_context.hpp"
#include "oncebox/receive/receiver_options.hpp"
#include "oncebox/receive/result_codec.hpp"
#include "oncebox/sender.hpp"
#include "oncebox/transaction.hpp"

/// What a `ReliabilityPipeline` reads from a declaration, and what it says about a wrong one.
namespace oncebox::detail {

/// In place of a type that is not declared, so that nothing is reported but the sentence about it.
struct Undeclared {};

template <class Declaration>
struct PayloadIn : std::type_identity<Undeclared> {};
template <class Declaration>
  requires requires { typename Declaration::Payload; }
struct PayloadIn<Declaration> : std::type_identity<typename Declaration::Payload> {};

template <class Declaration>
struct ResultIn : std::type_identity<std::monostate> {};
template <class Declaration>
  requires requires { typename Declaration::Result; }
struct ResultIn<Declaration> : std::type_identity<typename Declaration::Result> {};

template <class Declaration>
struct OutboxPayloadIn : std::type_identity<Undeclared> {};
template <class Declaration>
  requires requires { typename Declaration::OutboxPayload; }
struct OutboxPayloadIn<Declaration> : std::type_identity<typename Declaration::OutboxPayload> {};

template <class Declaration>
using PayloadOf = typename PayloadIn<Declaration>::type;
template <class Declaration>
using ResultOf = typename ResultIn<Declaration>::type;
template <class Declaration>
using OutboxPayloadOf = typename OutboxPayloadIn<Declaration>::type;

template <class Declaration>
concept Extensible = std::is_class_v<Declaration> && !std::is_final_v<Declaration>;

// Whether a declaration has a member of a name, whatever it is: overloaded, private, a template. If
// it has, the name is ambiguous in a class that inherits another one. So that what is declared
// wrongly is never taken for what is not declared.
struct NamesKey {
  int key;
};
struct NamesPolicies {
  int policies;
};
struct NamesOutboxTopic {
  int outbox_topic;
};
template <class Declaration, class Names>
struct WithNames : Declaration, Names {};

template <class Declaration>
concept DeclaresKey =
    Extensible<Declaration> && !requires { &WithNames<Declaration, NamesKey>::key; };
template <class Declaration>
concept DeclaresPolicies =
    Extensible<Declaration> && !requires { &WithNames<Declaration, NamesPolicies>::policies; };
template <class Declaration>
concept DeclaresOutboxTopic = Extensible<Declaration> && !requires {
  &WithNames<Declaration, NamesOutboxTopic>::outbox_topic;
};
template <class Declaration>
concept DeclaresResult = requires { typename Declaration::Result; };
template <class Declaration>
concept Sends = requires { typename Declaration::OutboxPayload; };

/// The declaration's `key` as a selector of a receiver. Borrows the declaration.
template <class Declaration>
struct DeclaredKey {
  const Declaration* declaration;

  template <class Message>
    requires requires(const Declaration& declared, const Message& message) {
      { declared.key(message) } -> std::convertible_to<SelectedKey>;
    }
  SelectedKey operator()(const Message& message) const {
    return declaration->key(message);
  }
};

/// The declaration's `handle` as a callable. Borrows the declaration.
template <class Declaration>
struct DeclaredHandler {
  Declaration* declaration;

  template <class... Arguments>
    requires requires(Declaration& declared, Arguments&&... arguments) {
      declared.handle(std::forward<Arguments>(arguments)...);
    }
  decltype(auto) operator()(Arguments&&... arguments) const {
    return declaration->handle(std::forward<Arguments>(arguments)...);
  }
};

/// `Behind` stands after the parameters that a receiver's handler has: a sender, or nothing.
template <class Declaration, class... Behind>
concept HandlesBehindKey =
    CallGives<ResultOf<Declaration>, DeclaredHandler<Declaration>,
              const Envelope<PayloadOf<Declaration>>&, ReceiveContext&, Behind&...> ||
    CallGives<ResultOf<Declaration>, DeclaredHandler<Declaration>, const PayloadOf<Declaration>&,
              ReceiveContext&, Behind&...> ||
    CallGives<ResultOf<Declaration>, DeclaredHandler<Declaration>, const PayloadOf<Declaration>&,
              Behind&...>;

template <class Declaration, class... Behind>
ResultOf<Declaration> call_behind_key(Declaration& declaration,
                                      const Envelope<PayloadOf<Declaration>>& message,
                                      ReceiveContext& context, Behind&... behind) {
  using Result = ResultOf<Declaration>;
  using Payload = PayloadOf<Declaration>;
  DeclaredHandler<Declaration> handler{&declaration};
  if constexpr (CallGives<Result, decltype(handler), const Envelope<Payload>&, ReceiveContext&,
                          Behind&...>) {
    return call_for_result<Result>(handler, message, context, behind...);
  } else if constexpr (CallGives<Result, decltype(handler), const Payload&, ReceiveContext&,
                                 Behind&...>) {
    return call_for_result<Result>(handler, message.payload, context, behind...);
  } else {
    return call_for_result<Result>(handler, message.payload, behind...);
  }
}

/// The same with a transaction instead of a key.
template <class Declaration, class... Behind>
concept HandlesInTransaction =
    CallGives<std::monostate, DeclaredHandler<Declaration>, const PayloadOf<Declaration>&,
              Transaction&, HandlerContext&, Behind&...> ||
    CallGives<std::monostate, DeclaredHandler<Declaration>, const PayloadOf<Declaration>&,
              Transaction&, Behind&...>;

template <class Declaration, class... Behind>
void call_in_transaction(Declaration& declaration, const PayloadOf<Declaration>& payload,
                         Transaction& transaction, HandlerContext& context, Behind&... behind) {
  DeclaredHandler<Declaration> handler{&declaration};
  if constexpr (std::invocable<decltype(handler)&, const PayloadOf<Declaration>&, Transaction&,
                               HandlerContext&, Behind&...>) {
    handler(payload, transaction, context, behind...);
  } else {
    handler(payload, transaction, behind...);
  }
}

template <class Declaration>
concept KeyedDeclaration =
    (!Sends<Declaration> && HandlesBehindKey<Declaration>) ||
    (Sends<Declaration> && HandlesBehindKey<Declaration, Sender<OutboxPayloadOf<Declaration>>>);

template <class Declaration>
concept TransactionalDeclaration =
    (!Sends<Declaration> && HandlesInTransaction<Declaration>) ||
    (Sends<Declaration> && HandlesInTransaction<Declaration, Sender<OutboxPayloadOf<Declaration>>>);

template <class Declaration>
concept WellDeclaredKey =
    !DeclaresKey<Declaration> || KeySelector<DeclaredKey<Declaration>, PayloadOf<Declaration>>;
template <class Declaration>
concept WellDeclaredPolicies =
    !DeclaresPolicies<Declaration> || requires(const Declaration& declared) {
      { declared.policies() } -> std::convertible_to<ReceiverOptions>;
    };
template <class Declaration>
concept WellDeclaredOutboxTopic = requires { Topic(Declaration::outbox_topic); };

// Whether a handle was meant to run in a transaction, however wrong it is otherwise. One that is
// overloaded or a template names nothing that could be looked at.
template <class... Parameters>
using NamesTransaction =
    std::disjunction<std::is_same<std::remove_cvref_t<Parameters>, Transaction>...>;
template <class Answer, class Declaration, class... Parameters>
NamesTransaction<Parameters...> names_transaction(Answer (Declaration::*)(Parameters...));
template <class Answer, class Declaration, class... Parameters>
NamesTransaction<Parameters...> names_transaction(Answer (Declaration::*)(Parameters...) const);
template <class Answer, class... Parameters>
NamesTransaction<Parameters...> names_transaction(Answer (*)(Parameters...));

template <class Declaration>
concept MeansTransaction =
    requires { requires decltype(names_transaction(&Declaration::handle))::value; };

template <class Declaration>
inline constexpr bool kNot = false;

/// The first thing that is wrong with a declaration is the only one that is reported.
template <class Declaration>
consteval bool check_declaration() {
  using D = Declaration;
  if constexpr (!Extensible<D>)
    static_assert(kNot<D>, "a pipeline is declared by a class that is not final");
  else if constexpr (std::same_as<PayloadOf<D>, Undeclared>)
    static_assert(kNot<D>, "a pipeline declares what it handles: using Payload = ...;");
  else if constexpr (!StorableResult<ResultOf<D>>)
    static_assert(kNot<D>, "the Result of a pipeline is stored: specialise oncebox::ResultCodec");
  else if constexpr (Sends<D> && !EncodablePayload<OutboxPayloadOf<D>>)
    static_assert(kNot<D>, "the OutboxPayload of a pipeline needs oncebox::PayloadCodec::encode");
  else if constexpr (Sends<D> && !DeclaresOutboxTopic<D>)
    static_assert(kNot<D>, "a pipeline with an OutboxPayload declares its outbox_topic");
  else if constexpr (!Sends<D> && DeclaresOutboxTopic<D>)
    static_assert(kNot<D>, "a pipeline with an outbox_topic declares its OutboxPayload");
  else if constexpr (Sends<D> && !WellDeclaredOutboxTopic<D>)
    static_assert(kNot<D>, "the outbox_topic of a pipeline is a static text");
  else if constexpr (!WellDeclaredPolicies<D>)
    static_assert(kNot<D>, "the policies of a pipeline: static ReceiverOptions policies();");
  else if constexpr (!WellDeclaredKey<D>)
    static_assert(kNot<D>,
                  "the key of a pipeline takes a const Payload& or a const Envelope<Payload>&, and "
                  "answers a text or an optional one");
  else if constexpr (Sends<D> && (HandlesBehindKey<D> || HandlesInTransaction<D>))
    static_assert(
        kNot<D>,
        "the handle of a pipeline with an OutboxPayload takes a Sender<OutboxPayload>& as "
        "its last parameter");
  else if constexpr (TransactionalDeclaration<D> &&
                     (DeclaresKey<D> || DeclaresPolicies<D> || DeclaresResult<D>))
    static_assert(kNot<D>,
                  "a handle in a Transaction has no use for key, policies and Result: the inbox "
                  "knows its message");
  else if constexpr (TransactionalDeclaration<D> && !DecodablePayload<PayloadOf<D>>)
    static_assert(kNot<D>,
                  "the Payload of a handle in a Transaction needs oncebox::PayloadCodec::decode");
  else if constexpr (!KeyedDeclaration<D> && !TransactionalDeclaration<D> && MeansTransaction<D>)
    static_assert(kNot<D>,
                  "the handle of a pipeline in a transaction takes (const Payload&, Transaction&), "
                  "then a HandlerContext& if wanted and a Sender<OutboxPayload>& if it sends, and "
                  "answers nothing");
  else if constexpr (!KeyedDeclaration<D> && !TransactionalDeclaration<D>)
    static_assert(kNot<D>,
                  "the handle of a pipeline takes (const Payload&, ReceiveContext&), then a "
                  "Sender<OutboxPayload>& if it sends, and answers Result");
  return true;
}

}  // namespace oncebox::detail
