/** Messages of exchange.proto, where their comments stand; made by ./generate. */

import type { MessageKind } from "../../../codec/wire.js";
import { QuerySchema, type Query } from "./query_pb.js";
import { RandomizerSchema, type Randomizer } from "./randomizer_pb.js";
import { SignedStudySchema, type SignedStudy } from "./study_pb.js";

export enum Reason {
  MALFORMED = 1,
  UNKNOWN_STUDY = 2,
  UNTRUSTED_KEY = 3,
  BAD_SIGNATURE = 4,
  EXPIRED = 5,
  SCHEMA_MISMATCH = 6,
  FIELD_NOT_ALLOWED = 7,
  INVALID_QUERY = 8,
  INVALID_RANDOMIZER = 9,
  LEVELS_MISMATCH = 10,
  OVER_STUDY_BUDGET = 11,
  OVER_DAY_BUDGET = 12,
  OVER_LIFE_BUDGET = 13,
  CLOCK_MOVED_BACK = 14,
  WRONG_EPOCH = 15,
  REFRESH_TOO_EARLY = 16,
  OVER_WINDOW_BUDGET = 17,
  NOT_APPROVED = 18,
  WAITING = 19,
}

export enum Status {
  ACCEPTED = 1,
  DUPLICATE = 2,
  CONFLICT = 3,
  LATE = 4,
  UNKNOWN = 5,
  MALFORMED = 6,
}

export enum Absence {
  UNKNOWN = 1,
  OTHER_GATEWAY = 2,
  REPLACED = 3,
  OVERLOADED = 4,
}

export interface Request {
  readonly studyDigest: Uint8Array;
  readonly round: number;
  readonly group: number;
  readonly query?: Query | undefined;
  readonly randomizer?: Randomizer | undefined;
  readonly epoch: number;
}
export const RequestSchema: MessageKind<Request> = {
  name: "Request",
  fields: [
    [1, "studyDigest", "bytes"],
    [2, "round", "uint32"],
    [3, "group", "uint32"],
    [4, "query", QuerySchema],
    [5, "randomizer", RandomizerSchema],
    [6, "epoch", "uint32"],
  ],
};

export interface Refusal {
  readonly reason: Reason;
}
export const RefusalSchema: MessageKind<Refusal> = {
  name: "Refusal",
  fields: [
    [1, "reason", "int32"],
  ],
};

export interface Report {
  readonly requestDigest: Uint8Array;
  readonly outcome:
    | { readonly case: "symbol"; readonly value: Uint8Array }
    | { readonly case: "refusal"; readonly value: Refusal }
    | { readonly case: undefined; readonly value?: undefined };
  readonly chargedNanoNats: bigint;
  readonly spentNanoNats: bigint;
  readonly sequence: bigint;
}
export const ReportSchema: MessageKind<Report> = {
  name: "Report",
  fields: [
    [1, "requestDigest", "bytes"],
    [2, "symbol", "bytes", "outcome"],
    [3, "refusal", RefusalSchema, "outcome"],
    [4, "chargedNanoNats", "uint64"],
    [5, "spentNanoNats", "uint64"],
    [6, "sequence", "uint64"],
  ],
};

export interface CheckInRequest {
  readonly reports: readonly Uint8Array[];
  readonly knownStudies: readonly Uint8Array[];
}
export const CheckInRequestSchema: MessageKind<CheckInRequest> = {
  name: "CheckInRequest",
  fields: [
    [1, "reports", "bytes", "[]"],
    [2, "knownStudies", "bytes", "[]"],
  ],
};

export interface Ack {
  readonly requestDigest: Uint8Array;
  readonly status: Status;
}
export const AckSchema: MessageKind<Ack> = {
  name: "Ack",
  fields: [
    [1, "requestDigest", "bytes"],
    [2, "status", "int32"],
  ],
};

export interface CheckInResponse {
  readonly acks: readonly Ack[];
  readonly studies: readonly SignedStudy[];
  readonly requests: readonly Uint8Array[];
  readonly retryAfterMs: number;
  readonly acknowledgedSequence: bigint;
}
export const CheckInResponseSchema: MessageKind<CheckInResponse> = {
  name: "CheckInResponse",
  fields: [
    [1, "acks", AckSchema, "[]"],
    [2, "studies", SignedStudySchema, "[]"],
    [3, "requests", "bytes", "[]"],
    [4, "retryAfterMs", "uint32"],
    [5, "acknowledgedSequence", "uint64"],
  ],
};

export interface Enrolment {
  readonly deviceId: Uint8Array;
  readonly tokenDigest: Uint8Array;
}
export const EnrolmentSchema: MessageKind<Enrolment> = {
  name: "Enrolment",
  fields: [
    [1, "deviceId", "bytes"],
    [2, "tokenDigest", "bytes"],
  ],
};

export interface EnrolRequest {
  readonly devices: readonly Enrolment[];
  readonly gateway?: Enrolment | undefined;
}
export const EnrolRequestSchema: MessageKind<EnrolRequest> = {
  name: "EnrolRequest",
  fields: [
    [1, "devices", EnrolmentSchema, "[]"],
    [8, "gateway", EnrolmentSchema],
  ],
};

export interface EnrolResponse {
  readonly enrolled: bigint;
  readonly known: bigint;
}
export const EnrolResponseSchema: MessageKind<EnrolResponse> = {
  name: "EnrolResponse",
  fields: [
    [1, "enrolled", "uint64"],
    [2, "known", "uint64"],
  ],
};

export interface CertifyRequest {
  readonly signingRequest: Uint8Array;
}
export const CertifyRequestSchema: MessageKind<CertifyRequest> = {
  name: "CertifyRequest",
  fields: [
    [1, "signingRequest", "bytes"],
  ],
};

export interface CertifyResponse {
  readonly chain: Uint8Array;
  readonly authority: Uint8Array;
  readonly port: number;
  readonly address: string;
}
export const CertifyResponseSchema: MessageKind<CertifyResponse> = {
  name: "CertifyResponse",
  fields: [
    [1, "chain", "bytes"],
    [2, "authority", "bytes"],
    [3, "port", "uint32"],
    [4, "address", "string"],
  ],
};

export interface Join {
  readonly member: number;
  readonly deviceId: Uint8Array;
  readonly token: Uint8Array;
}
export const JoinSchema: MessageKind<Join> = {
  name: "Join",
  fields: [
    [1, "member", "uint32"],
    [2, "deviceId", "bytes"],
    [3, "token", "bytes"],
  ],
};

export interface MemberReports {
  readonly member: number;
  readonly token: Uint8Array;
  readonly reports: readonly Uint8Array[];
}
export const MemberReportsSchema: MessageKind<MemberReports> = {
  name: "MemberReports",
  fields: [
    [1, "member", "uint32"],
    [2, "token", "bytes"],
    [3, "reports", "bytes", "[]"],
  ],
};

export interface GatewayBatch {
  readonly knownStudies: readonly Uint8Array[];
  readonly joins: readonly Join[];
  readonly reports: readonly MemberReports[];
  readonly settled: number;
}
export const GatewayBatchSchema: MessageKind<GatewayBatch> = {
  name: "GatewayBatch",
  fields: [
    [1, "knownStudies", "bytes", "[]"],
    [2, "joins", JoinSchema, "[]"],
    [3, "reports", MemberReportsSchema, "[]"],
    [4, "settled", "uint32"],
  ],
};

export interface MembersRequest {
  readonly request: Uint8Array;
  readonly members: readonly number[];
}
export const MembersRequestSchema: MessageKind<MembersRequest> = {
  name: "MembersRequest",
  fields: [
    [1, "request", "bytes"],
    [2, "members", "uint32", "[]"],
  ],
};

export interface MembersAck {
  readonly requestDigest: Uint8Array;
  readonly status: Status;
  readonly members: readonly number[];
}
export const MembersAckSchema: MessageKind<MembersAck> = {
  name: "MembersAck",
  fields: [
    [1, "requestDigest", "bytes"],
    [2, "status", "int32"],
    [3, "members", "uint32", "[]"],
  ],
};

export interface MembersAbsence {
  readonly reason: Absence;
  readonly members: readonly number[];
}
export const MembersAbsenceSchema: MessageKind<MembersAbsence> = {
  name: "MembersAbsence",
  fields: [
    [1, "reason", "int32"],
    [2, "members", "uint32", "[]"],
  ],
};

export interface MemberSequence {
  readonly member: number;
  readonly sequence: bigint;
}
export const MemberSequenceSchema: MessageKind<MemberSequence> = {
  name: "MemberSequence",
  fields: [
    [1, "member", "uint32"],
    [2, "sequence", "uint64"],
  ],
};

export interface GatewayResponse {
  readonly studies: readonly SignedStudy[];
  readonly requests: readonly MembersRequest[];
  readonly acks: readonly MembersAck[];
  readonly absences: readonly MembersAbsence[];
  readonly sequences: readonly MemberSequence[];
}
export const GatewayResponseSchema: MessageKind<GatewayResponse> = {
  name: "GatewayResponse",
  fields: [
    [1, "studies", SignedStudySchema, "[]"],
    [2, "requests", MembersRequestSchema, "[]"],
    [3, "acks", MembersAckSchema, "[]"],
    [4, "absences", MembersAbsenceSchema, "[]"],
    [5, "sequences", MemberSequenceSchema, "[]"],
  ],
};
