// The AWS SDK for JavaScript: runs one scenario, and prints what it saw as JSON.

import { readFileSync } from "node:fs";
import { Readable } from "node:stream";

import {
  CopyObjectCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  S3Client,
  paginateListBuckets,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { createPresignedPost } from "@aws-sdk/s3-presigned-post";

const client = new S3Client({ endpoint: process.env.AWS_ENDPOINT_URL, forcePathStyle: true });
const Bucket = "lake";

const named = (name) => ({ Bucket, Key: `main/js/${name}` });

async function read(name) {
  const found = await client.send(new GetObjectCommand(named(name)));
  return found.Body.transformToString();
}

async function failure(command) {
  try {
    await client.send(command);
  } catch (error) {
    return error.name;
  }
  return null;
}

const scenarios = {
  async uploads() {
    const content = "0123456789".repeat(1_200_000);
    const params = { ...named("stream"), Body: Readable.from([Buffer.from(content)]) };
    const done = await new Upload({ client, params }).done();
    return { location: done.Location, same: (await read("stream")) === content };
  },

  async tags() {
    const tagsOf = async (name) => {
      const found = await client.send(new GetObjectTaggingCommand(named(name)));
      return Object.fromEntries(found.TagSet.map(({ Key, Value }) => [Key, Value]));
    };
    await client.send(new PutObjectCommand({ ...named("tags"), Body: "x", Tagging: "a=b%20c" }));
    const uploaded = await tagsOf("tags");
    const Tagging = { TagSet: [{ Key: "d", Value: "e" }] };
    await client.send(new PutObjectTaggingCommand({ ...named("tags"), Tagging }));
    const CopySource = `${Bucket}/main/js/tags`;
    await client.send(new CopyObjectCommand({ ...named("copy"), CopySource }));
    const replaced = { ...named("copy2"), CopySource, TaggingDirective: "REPLACE", Tagging: "f=g" };
    await client.send(new CopyObjectCommand(replaced));
    const { TagCount } = await client.send(new GetObjectCommand(named("tags")));
    return [uploaded, await tagsOf("tags"), await tagsOf("copy"), await tagsOf("copy2"), TagCount];
  },

  async deletes() {
    const { ETag } = await client.send(new PutObjectCommand({ ...named("a"), Body: "a" }));
    await client.send(new PutObjectCommand({ ...named("b"), Body: "b" }));
    const refused = await failure(new DeleteObjectCommand({ ...named("a"), IfMatch: '"other"' }));
    const Objects = ["a", "b"].map((name) => ({ Key: named(name).Key, ETag }));
    const many = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    return {
      refused,
      deleted: many.Deleted.map(({ Key }) => Key),
      errors: many.Errors.map(({ Key, Code }) => [Key, Code]),
      left: await read("b"),
    };
  },

  async posts() {
    const { url, fields } = await createPresignedPost(client, {
      ...named("posted"),
      Conditions: [["content-length-range", 0, 100]],
      Fields: { "Content-Type": "text/csv" },
    });
    const post = async (content) => {
      const form = new FormData();
      for (const [name, value] of Object.entries(fields)) form.append(name, value);
      form.append("file", new Blob([content]), "file.csv");
      return (await fetch(url, { method: "POST", body: form })).status;
    };
    return [await post("a,b"), await post("x".repeat(101)), await read("posted")];
  },

  async buckets() {
    const pages = [];
    for await (const page of paginateListBuckets({ client, pageSize: 1 }, {})) {
      pages.push(page.Buckets.map(({ Name }) => Name));
    }
    return pages;
  },
};

// Standard output is for the result alone.
console.log(JSON.stringify(await scenarios[readFileSync(0, "utf8")]()));
